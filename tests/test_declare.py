"""@job: what cannot work is refused where it is written, in words, with the line to write."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db.models import QuerySet

from tests.app.models import Document
from ultimate_jobs import Job, JobContext, Retry, job
from ultimate_jobs.errors import (
    IdempotencyRequired,
    JobInputInvalid,
    JobKeyInvalid,
    JobOptionInvalid,
    JobSignatureInvalid,
    UltimateJobsError,
)
from ultimate_jobs.registry import declared_names, find_job

if TYPE_CHECKING:
    from nowhere import NeverImported

pytestmark = pytest.mark.usefixtures("own_registry")


Written = Callable[[str], dict[str, Any]]


@pytest.fixture
def declared_in(monkeypatch: pytest.MonkeyPatch) -> Written:
    """Execute a module's text, whose annotations are then as its own first lines say."""

    def execute(source: str) -> dict[str, Any]:
        module = types.ModuleType("uj_written")
        module.__dict__["job"] = job
        # dataclasses and pydantic look names up in the module that stands there.
        monkeypatch.setitem(sys.modules, "uj_written", module)
        exec(compile(source, "uj_written.py", "exec", dont_inherit=True), module.__dict__)
        return module.__dict__

    return execute


# --- the key ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [{}, {"key": None}, {"key": ""}])
def test_declare_without_a_key_is_refused_at_import(key: dict[str, Any]) -> None:
    """A key is mandatory, and the fix is the decorator to write."""
    with pytest.raises(IdempotencyRequired) as caught:

        @job(**key)
        def send(ctx: Any, invoice_id: int) -> None: ...

    assert "send:{invoice_id}" in caught.value.fix
    assert declared_names() == ()


@pytest.mark.parametrize("key", ["{invoice}", "{", "{}", 5, b"x", lambda other: "x"])
def test_declare_with_a_key_that_cannot_work_is_refused(key: Any) -> None:
    """A wrong key is found at import, and nothing is registered."""
    with pytest.raises(JobOptionInvalid):

        @job(key=key)
        def send(ctx: Any, invoice_id: int) -> None: ...

    assert declared_names() == ()


@pytest.mark.parametrize("computed", [None, 7, b"x", "", "a\x00", "\ud800", "x" * 1025, ["k"]])
def test_enqueue_with_a_callable_key_that_returns_no_key_is_refused(computed: Any) -> None:
    """What a callable returns is checked before anything is written; no database is needed."""

    @job(key=lambda n: computed)
    def send(ctx: Any, n: int) -> None: ...

    with pytest.raises(JobKeyInvalid) as caught:
        send.enqueue(n=1)

    assert "the key" in caught.value.cause


# --- the function ----------------------------------------------------------------------------


def takes_args(ctx: Any, *rows: int) -> None: ...
def takes_kwargs(ctx: Any, **rows: int) -> None: ...
def takes_nothing() -> None: ...
def takes_only_keywords(*, ctx: Any) -> None: ...
def takes_only_args(*args: int) -> None: ...
def takes_only_kwargs(**kwargs: int) -> None: ...
def by_place(ctx: Any, n: int, /) -> None: ...
def unannotated(ctx: Any, n) -> None: ...  # type: ignore[no-untyped-def]
def unannotated_default(ctx: Any, n=3) -> None: ...  # type: ignore[no-untyped-def]
def takes_model(ctx: Any, document: Document) -> None: ...
def takes_optional_model(ctx: Any, document: Document | None = None) -> None: ...
def takes_models(ctx: Any, documents: list[Document]) -> None: ...
def takes_nested_models(ctx: Any, documents: dict[str, tuple[Document, int]]) -> None: ...
def takes_queryset(ctx: Any, documents: QuerySet) -> None: ...  # type: ignore[type-arg]
def takes_typed_queryset(ctx: Any, documents: QuerySet[Document]) -> None: ...
def takes_odd_annotation(ctx: Any, n: 5) -> None: ...  # type: ignore[valid-type]
def takes_unresolvable_syntax(ctx: Any, n: "int |") -> None: ...  # type: ignore[syntax] # noqa: F722
def takes_unsupported(ctx: Any, n: threading_lock) -> None: ...  # type: ignore[name-defined]
def generates(ctx: Any) -> Iterator[int]:
    yield 1


async def generates_async(ctx: Any) -> AsyncIterator[int]:
    yield 1


threading_lock = type("Lock", (), {})


class Holder:
    def method(self) -> None: ...
    def method_with_ctx(self, ctx: int) -> None: ...
    @classmethod
    def of_class(cls) -> None: ...
    @staticmethod
    def static(ctx: Any) -> None: ...
    def __call__(self, ctx: Any) -> None: ...


FUNCTIONS: list[tuple[Any, str]] = [
    (takes_args, '"rows" collects'),
    (takes_kwargs, '"rows" collects'),
    (takes_nothing, "takes no context"),
    (takes_only_keywords, "takes no context"),
    (takes_only_args, "takes no context"),
    (takes_only_kwargs, "takes no context"),
    (by_place, '"n" cannot be passed by name'),
    (unannotated, '"n" has no annotation'),
    (unannotated_default, '"n" has no annotation'),
    (takes_model, "annotated with Document"),
    (takes_optional_model, "annotated with Document"),
    (takes_models, "annotated with Document"),
    (takes_nested_models, "annotated with Document"),
    (takes_queryset, "annotated with QuerySet"),
    (takes_typed_queryset, "annotated with"),
    (takes_odd_annotation, "annotation"),
    (takes_unresolvable_syntax, "annotation"),
    (takes_unsupported, "annotation"),
    (generates, "generator"),
    (generates_async, "generator"),
    (lambda ctx: None, "lambda"),
    (functools.partial(takes_nothing), "this is a partial"),
    (Holder, "this is a type"),
    (Holder(), "this is a Holder"),
    (Holder().method, "this is a method"),
    (Holder.method, "this is a method"),
    (Holder.method_with_ctx, "this is a method"),
    (Holder.of_class, "this is a method"),
    (Holder.__dict__["static"], "this is a staticmethod"),
    (print, "this is a builtin_function_or_method"),
    (None, "this is a NoneType"),
    ("send", "this is a str"),
]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(("func", "said"), FUNCTIONS, ids=[said for _, said in FUNCTIONS])
def test_declare_of_what_cannot_be_a_job_is_refused(func: Any, said: str, named: bool) -> None:
    """Neither a name of its own nor anything else makes it a job, and nothing is registered."""
    name = {"name": "tests.named"} if named else {}

    with pytest.raises(JobSignatureInvalid) as caught:
        job(key="x", **name)(func)

    assert said in caught.value.cause
    assert caught.value.fix
    assert declared_names() == ()


def test_declare_of_a_job_again_is_refused() -> None:
    """A handle is no function, and two handles on one body would be two jobs."""

    @job(key="x")
    def send(ctx: Any) -> None: ...

    with pytest.raises(JobSignatureInvalid) as caught:
        job(key="y", name="tests.second")(send)

    assert "this is a Job" in caught.value.cause


def test_declare_of_an_async_def_is_taken_and_known_as_such() -> None:
    """An async body is a job like any other."""

    @job(key="x", name="tests.async")
    async def send(ctx: Any) -> int:
        return 1

    assert send.definition.is_async
    running = send(None)
    running.close()
    assert inspect.iscoroutine(running)


def test_declare_of_a_decorated_function_reads_the_inner_signature() -> None:
    """A decorator that says what it wraps hides nothing."""

    def traced(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return ("traced", func(*args, **kwargs))

        return wrapper

    @job(key="x:{n}", name="tests.traced")
    @traced
    def send(ctx: Any, n: int) -> int:
        return n

    assert send.definition.schema.parameters == ("n",)
    assert send(None, 3) == ("traced", 3)


def test_declare_of_a_decorator_that_hides_the_signature_is_refused() -> None:
    """Without ``functools.wraps`` nobody can tell the inputs."""

    def hiding(func: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(ctx: Any, *args: Any, **kwargs: Any) -> Any:
            return func(ctx, *args, **kwargs)

        return wrapper

    with pytest.raises(JobSignatureInvalid):
        job(key="x")(hiding(by_place))


# --- annotations -----------------------------------------------------------------------------

FUTURE = "from __future__ import annotations\n"


@pytest.mark.parametrize("head", [FUTURE, ""])
def test_declare_with_types_defined_earlier_checks_inputs_by_them(
    declared_in: Written, head: str
) -> None:
    """Annotations mean the same, written as text or not."""
    found = declared_in(
        f"{head}from dataclasses import dataclass\n"
        "@dataclass\nclass Row:\n    n: int\n"
        "@job(key='x')\ndef send(ctx, row: Row, n: int = 1): ...\n"
    )

    schema = found["send"].definition.schema

    assert schema.load({"row": found["Row"](1)}) == {"row": found["Row"](1), "n": 1}
    with pytest.raises(JobInputInvalid):
        schema.load({"row": 1})


@pytest.mark.parametrize("annotation", ["Row", "list[Row]", "Row | None", "dict[str, Row]"])
def test_declare_with_a_type_defined_later_resolves_it_at_first_use(
    declared_in: Written, annotation: str
) -> None:
    """A job may stand above the types of its inputs."""
    found = declared_in(
        f"{FUTURE}from dataclasses import dataclass\n"
        f"@job(key='x')\ndef send(ctx, row: {annotation}): ...\n"
        "@dataclass\nclass Row:\n    n: int\n"
    )

    schema = found["send"].definition.schema

    with pytest.raises(JobInputInvalid) as caught:
        schema.load({"row": "text"})
    assert "row" in caught.value.cause


def test_declare_with_a_type_whose_fields_come_later_resolves_them(declared_in: Written) -> None:
    """The types of a type may come later too."""
    found = declared_in(
        f"{FUTURE}from dataclasses import dataclass\n"
        "@dataclass\nclass Order:\n    row: Row\n"
        "@job(key='x')\ndef send(ctx, order: Order): ...\n"
        "@dataclass\nclass Row:\n    n: int\n"
    )
    order = found["Order"](found["Row"](3))

    schema = found["send"].definition.schema
    text = schema.dump(schema.load({"order": order}), max_bytes=1000)

    assert schema.decode(text) == {"order": order}


def test_declare_with_an_attribute_that_comes_later_resolves_it(declared_in: Written) -> None:
    """A module in the middle of a circular import has not all of its names yet."""
    late = types.ModuleType("uj_late")
    found = declared_in(f"{FUTURE}late = None\n@job(key='x')\ndef send(ctx, n: late.Number): ...\n")
    found["late"] = late
    late.Number = int  # type: ignore[attr-defined]

    assert found["send"].definition.schema.load({"n": 1}) == {"n": 1}


def test_use_with_a_type_that_is_never_defined_is_refused_in_words(declared_in: Written) -> None:
    """What no import ever defines is said at first use, and the fix is to import it."""
    found = declared_in(f"{FUTURE}@job(key='x')\ndef send(ctx, row: Nowhere): ...\n")

    with pytest.raises(JobSignatureInvalid) as caught:
        found["send"].enqueue(row=1)

    assert "Nowhere" in caught.value.cause
    assert "import" in caught.value.fix


def test_use_with_a_later_type_that_is_a_model_is_refused_in_words(declared_in: Written) -> None:
    """A late type is judged like an early one."""
    found = declared_in(
        f"{FUTURE}@job(key='x')\ndef send(ctx, document: Document): ...\n"
        "from tests.app.models import Document\n"
    )

    with pytest.raises(JobSignatureInvalid) as caught:
        found["send"].enqueue(document=1)

    assert "document_id: int" in caught.value.fix


def test_use_with_a_later_type_that_the_default_does_not_fit_is_refused(
    declared_in: Written,
) -> None:
    """A default is judged when its type is known."""
    found = declared_in(
        f"{FUTURE}@job(key='x')\ndef send(ctx, n: Number = 'x'): ...\nNumber = int\n"
    )

    with pytest.raises(JobSignatureInvalid) as caught:
        found["send"].enqueue()

    assert "default" in caught.value.cause


def test_declare_with_context_and_result_of_unimported_types_works() -> None:
    """Only inputs are resolved: what is imported for type checkers alone may annotate the rest."""

    @job(key="x", name="tests.checked")
    def send(ctx: NeverImported, n: int) -> NeverImported:
        return ctx

    assert send.definition.schema.load({"n": 1}) == {"n": 1}


@dataclass
class Row:
    n: int


def test_declare_with_annotations_in_quotes_works(declared_in: Written) -> None:
    """One quoted annotation among others is an annotation."""
    found = declared_in("@job(key='x')\ndef send(ctx, n: 'int', m: int): ...\n")

    assert found["send"].definition.schema.load({"n": 1, "m": 2}) == {"n": 1, "m": 2}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is newer than this Python")
def test_declare_with_a_type_alias_works(declared_in: Written) -> None:
    """``type X = ...`` is an annotation like any other."""
    found = declared_in("type Number = int\n@job(key='x')\ndef send(ctx, n: Number): ...\n")

    with pytest.raises(JobInputInvalid):
        found["send"].definition.schema.load({"n": "x"})


# --- options ---------------------------------------------------------------------------------


def declare(**options: Any) -> Job[Any, Any]:
    def send(ctx: Any, n: int = 0) -> None: ...

    declared: Job[Any, Any] = job(**{"key": "x", **options})(send)
    return declared


@pytest.mark.parametrize("priority", [-101, 101, True, False, 1.0, "5", None, float("nan")])
def test_declare_with_a_priority_out_of_range_or_type_is_refused(priority: Any) -> None:
    """The range is the column's; a bool is no number here."""
    with pytest.raises(JobOptionInvalid) as caught:
        declare(priority=priority)

    assert "priority" in caught.value.cause
    assert "-100 to 100" in caught.value.cause


@pytest.mark.parametrize("priority", [-100, -1, 0, 1, 100])
def test_declare_with_a_priority_of_the_range_keeps_it(priority: int) -> None:
    """The bounds and 0 themselves are allowed."""
    assert declare(priority=priority).definition.priority == priority


@pytest.mark.parametrize("retry", [3, "exponential", {"attempts": 3}, Retry, False, 0])
def test_declare_with_a_retry_of_another_type_is_refused(retry: Any) -> None:
    """A number is no policy, and a falsy one is not "as by default"."""
    with pytest.raises(JobOptionInvalid) as caught:
        declare(retry=retry)

    assert "retry" in caught.value.cause


def test_declare_without_retry_has_the_default_policy() -> None:
    """The default policy is the documented one."""
    assert declare().definition.retry == Retry()


@pytest.mark.parametrize("option", ["name", "queue"])
@pytest.mark.parametrize("value", ["", 0, False, 5, b"x", "a\x00", "\ud800", "x" * 256])
def test_declare_with_a_name_or_queue_that_cannot_be_stored_is_refused(
    option: str, value: Any
) -> None:
    """An empty text or a zero is refused, and never replaced by the default."""
    with pytest.raises(JobKeyInvalid) as caught:
        declare(**{option: value})

    assert f"the {option}" in caught.value.cause


@pytest.mark.parametrize("aliases", ["tests.old", 5, None, b"old"])
def test_declare_with_aliases_that_are_no_list_is_refused(aliases: Any) -> None:
    """A text is a list of letters, which is hardly what was meant."""
    with pytest.raises((JobOptionInvalid, JobKeyInvalid)) as caught:
        declare(aliases=aliases)

    assert "alias" in caught.value.cause or "name" in caught.value.cause
    assert declared_names() == ()


@pytest.mark.parametrize("alias", ["", 5, None, "a\x00", "x" * 256])
def test_declare_with_an_alias_that_is_no_name_is_refused(alias: Any) -> None:
    """An alias obeys the rules of names."""
    with pytest.raises(JobKeyInvalid):
        declare(aliases=["tests.good", alias])

    assert declared_names() == ()


def test_declare_with_an_unknown_option_is_refused() -> None:
    """A misspelt option is not ignored."""
    with pytest.raises(TypeError):
        declare(prioritiy=5)


def test_declare_without_a_name_stores_module_and_function() -> None:
    """The default name says where the function stands."""
    declared = declare()

    assert declared.name == "tests.test_declare.declare.<locals>.send"
    assert find_job(declared.name) is declared.definition


# --- the handle ------------------------------------------------------------------------------


def test_call_of_a_handle_runs_the_body_here() -> None:
    """A job can be tested as the function it was."""

    @job(key="x", name="tests.add")
    def add(ctx: Any, a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    assert (add(None, 1), add(None, 1, b=5), add(None, a=1)) == (3, 6, 3)
    assert (add.__name__, add.__doc__) == ("add", "Add.")
    assert repr(add) == "<Job tests.add>"


def test_handle_of_a_function_with_attributes_keeps_its_own() -> None:
    """What other decorators hang on a function does not replace what a handle is made of."""

    def send(ctx: Any) -> str:
        return "sent"

    send.definition = send._func = send._options = "theirs"  # type: ignore[attr-defined]
    send.tag = "kept"  # type: ignore[attr-defined]

    declared: Any = job(key="x", name="tests.attributes")(send)

    assert declared.definition is find_job("tests.attributes")
    assert declared(None) == "sent"
    assert declared.using(priority=1)._options.priority == 1
    assert declared.tag == "kept"


def test_what_merely_looks_like_a_job_never_registers() -> None:
    """A job is told by its own brand."""

    class Lookalike:
        name = "tests.lookalike"
        enqueue = using = describe = lambda self: None

    Lookalike()

    assert declared_names() == ()


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((1, 2, 3), {}, "3 positional inputs for 2 parameters"),
        ((1,), {"a": 2}, "a: given twice"),
        ((), {"a": 1, "c": 2}, "c:"),
        ((), {}, "a: Field required"),
        ((), {"ctx": 1, "a": 1}, "ctx:"),
    ],
)
def test_enqueue_with_inputs_that_do_not_fit_is_refused(
    args: tuple[Any, ...], kwargs: dict[str, Any], said: str
) -> None:
    """A call that Python would refuse is refused before anything is written."""

    @job(key="x", name="tests.add")
    def add(ctx: Any, a: int, b: int = 2) -> None: ...

    with pytest.raises(JobInputInvalid) as caught:
        add.enqueue(*args, **kwargs)

    assert said in caught.value.cause


def test_enqueue_with_an_input_called_like_an_argument_of_ours_is_taken_as_input() -> None:
    """No name is reserved among the inputs."""

    @job(key="x", name="tests.names")
    def names(ctx: Any, inputs: int, options: int, args: int) -> None: ...

    with pytest.raises(JobInputInvalid) as caught:
        names.enqueue(self=1, inputs="x", options=1, args=1)

    assert "self: Extra inputs are not permitted" in caught.value.cause
    assert "inputs: Input should be a valid integer" in caught.value.cause


def test_refusals_at_declaration_are_errors_of_this_package() -> None:
    """One except clause of an app catches each of them."""
    for kind in (IdempotencyRequired, JobOptionInvalid, JobSignatureInvalid, JobKeyInvalid):
        assert issubclass(kind, UltimateJobsError)


@pytest.mark.parametrize(
    ("timeout", "expected"),
    [(None, None), (30, 30_000), (0.5, 500), (timedelta(minutes=2), 120_000)],
)
def test_declare_with_a_timeout_keeps_it_in_milliseconds(timeout: Any, expected: int) -> None:
    """Seconds or a timedelta; by default an attempt may run without end."""

    @job(key="x", timeout=timeout)
    def body(ctx: Any) -> None: ...

    assert body.definition.timeout_ms == expected


@pytest.mark.parametrize(
    "timeout", [0, -1, True, "30", float("nan"), float("inf"), timedelta(0), 367 * 86_400]
)
def test_declare_with_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    """Neither a moment that has passed nor one that never comes."""
    with pytest.raises(JobOptionInvalid, match="option timeout of job"):

        @job(key="x", timeout=timeout)
        def body(ctx: Any) -> None: ...


@pytest.mark.parametrize("atomic", [None, 1, "yes"])
def test_declare_with_atomic_that_is_no_bool_is_refused(atomic: Any) -> None:
    """What is merely truthy is a slip."""
    with pytest.raises(JobOptionInvalid, match="option atomic of job"):

        @job(key="x", atomic=atomic)
        def body(ctx: Any) -> None: ...


def test_declare_an_async_body_as_atomic_is_refused() -> None:
    """Django's transactions belong to one thread, and awaits do not."""
    with pytest.raises(JobOptionInvalid, match="does not go with async def"):

        @job(key="x", atomic=True)
        async def body(ctx: Any) -> None: ...


def test_job_without_parentheses_is_told_to_write_a_key() -> None:
    """The likeliest first mistake, and its fix is over the function's own input."""

    def send(ctx: JobContext, invoice_id: int) -> None: ...

    with pytest.raises(JobOptionInvalid) as caught:
        job(send)  # type: ignore[arg-type]

    assert "send" in caught.value.cause
    assert "without parentheses" in caught.value.cause
    assert caught.value.fix == 'write @job(key="send:{invoice_id}")'


@pytest.mark.parametrize(
    ("given", "fix"),
    [('a "{n}"', 'write @job(key="a \\"{n}\\"")'), (5, 'write @job(key="...")')],
)
def test_key_without_its_name_is_told_to_be_named(given: Any, fix: str) -> None:
    """Every option is given by keyword."""
    with pytest.raises(JobOptionInvalid) as caught:
        job(given)

    assert caught.value.fix == fix


@pytest.mark.parametrize("given", [None, 5, "abc", {"n": 1}])
def test_enqueue_many_of_no_list_is_refused(given: Any) -> None:
    """One mapping is no list of mappings, and its names are no inputs."""

    @job(key="{n}", name="tests.many")
    def many(ctx: JobContext, n: int) -> None: ...

    with pytest.raises(JobOptionInvalid) as caught:
        many.enqueue_many(given)

    assert f'"tests.many" is {type(given).__name__}, not a list' in caught.value.cause
    assert caught.value.fix == 'call many.enqueue_many([{"n": ...}])'
