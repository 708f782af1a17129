"""Drumline's pure core: values and rules that every part shares.

No clock, no I/O, no gRPC beyond the contracts' messages and the codes of errors.
"""
