"""The transactions: plain functions of records, each a step that the committer carries out.

A step reads and writes through a `View` and knows neither clock nor network. It
raises a `DrumlineError` to refuse, and then has changed nothing. Steps are run
again when another apiserver was faster, so they hold no state of their own.
"""
