"""The edge: one module a service of the contracts."""
