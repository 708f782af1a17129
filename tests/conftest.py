"""What holds for all tests."""

import os

from hypothesis import settings

# No example is judged by how long it takes: machines differ, and are busy.
settings.register_profile(
    "drumline",
    parent=settings.get_profile("ci" if "CI" in os.environ else "default"),
    deadline=None,
    print_blob=True,
)
settings.load_profile("drumline")
