"""Extensions that plug into the core by entry points; the core names none of them."""
