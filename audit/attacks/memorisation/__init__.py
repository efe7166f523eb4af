"""Memorisation of question-answering models.

What they answer when the answer is gone (Pinto et al. 2024).
"""

from audit.attacks.memorisation.attack import Memorisation
