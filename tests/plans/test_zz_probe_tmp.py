import json, pytest
from tests.plans.test_plans import *
@pytest.mark.django_db
def test_show(busy, request):
    out=[]
    def show(n, d=0):
        out.append("  "*d+f"{n['Node Type']} {n.get('Index Name','')} {n.get('Relation Name','')} est={n.get('Plan Rows')} rows={n.get('Actual Rows')} loops={n.get('Actual Loops')} hit={n.get('Shared Hit Blocks')} rm={n.get('Rows Removed by Filter')} sub={n.get('Subplan Name','')} cond={n.get('Index Cond','')} key={n.get('Sort Key','')}")
        for m in n.get("Plans",[]): show(m,d+1)
    for act in (lambda d: d.claim(ClaimRequest(WORKER, NAMES, 10, queues=("q0",))), lambda d: d.enqueue(requests("ready",1000), on_conflict=OnConflict.EXISTING)):
        p=Plans(act)
        for r in p.roots: show(r); out.append("--")
    print(request.node.name); print("\n".join(out))
