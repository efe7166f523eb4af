"""Facts of an audit: what every output draws from, each number with one definition.

A number has one definition and one place: `definitions` says what each one is, the modules beside
it compute it from record and verdict, and `build.facts_of` puts all of them together. What outputs
do with it is layout: they choose words, digits and order of pages, and compute nothing.
"""
