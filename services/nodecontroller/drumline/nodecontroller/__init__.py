"""The nodecontroller: hears nodes, judges whether they live, and reports what changed."""
