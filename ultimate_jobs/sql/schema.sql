-- What screens and checks ask of the catalogue; it locks nothing.

-- name: key_indexes
-- One descent of pg_index by table. An interrupted concurrent build leaves an index that every
-- write pays for and that dedupes nothing: it is there, and it is not valid.
select c.relname, i.indisvalid and i.indisready and i.indisunique
from pg_index i
join pg_class c on c.oid = i.indexrelid
where i.indrelid = to_regclass('x_jobs') and c.relname = any(%(names)s::text[]);
