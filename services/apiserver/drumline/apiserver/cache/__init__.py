"""What the apiserver knows: every record, joined to objects, and who watches them."""
