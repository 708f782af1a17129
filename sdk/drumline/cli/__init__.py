"""The command line, `drumline`.

Modules here import at their top only what costs nothing; what is heavy (gRPC,
contracts, YAML, rich) is imported inside the functions that need it, so that help
and completion answer at once.
"""
