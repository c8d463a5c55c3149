"""Changes to jobs that exist, one module per intent: cancelling, pausing, changing, firing.

Every change is one transaction that begins by locking the job, so the planner, other clients and workers see
either all of it or nothing. The planner moves a cursor only if the version it read is still current; a worker
starts an execution only if its row is still there; so whatever a change takes back cannot happen any more
once the transaction has committed.

They act for all tenants; every method names the tenant it acts for.
"""
