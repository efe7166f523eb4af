"""Models that tag an utterance's slots and name its intent, with a word vocabulary of their own."""
