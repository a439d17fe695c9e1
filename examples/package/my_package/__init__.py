"""Tasks and attentions of a package of one's own (an example)."""
