"""The gateway: how remote workers, which reach Tocsin by HTTP alone, get executions and tell what became of
them."""
