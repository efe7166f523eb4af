"""Chat templates as those of the models that people have, shortened."""

CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}"
    "{% for turn in messages %}<|im_start|>{{ turn.role }}\n{% for part in turn.content %}"
    "{% if part.type == 'image' %}IMAGE{% else %}{{ part.text }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Qwen's and InternVL's, with a system turn of its own where none is given."""
SPOKEN = (
    "{% for turn in messages %}{{ {'user': 'USER', 'assistant': 'ASSISTANT', 'system': 'SYSTEM'}[turn.role] }}:"
    "{% for part in turn.content %}{% if part.type == 'image' %} <image>\n{% else %} {{ part.text }}{% endif %}"
    "{% endfor %}{% if turn.role == 'assistant' %}</s>{% else %} {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
"""LLaVA's, as Vicuna has it."""
UTTERANCES = (
    "<|im_start|>{% for turn in messages %}{{ turn.role | capitalize }}:"
    "{% for part in turn.content %}{% if part.type == 'image' %}<image>{% else %} {{ part.text }}{% endif %}"
    "{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
"""Idefics's and SmolVLM's."""
GEMMA = (
    "{{ bos_token }}{% for turn in messages %}<start_of_turn>{{ 'model' if turn.role == 'assistant' else turn.role }}\n"
    "{% for part in turn.content %}{% if part.type == 'image' %}<start_of_image>{% else %}{{ part.text | trim }}"
    "{% endif %}{% endfor %}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for turn in messages %}{% if turn.role == 'system' %}[SYSTEM_PROMPT]{{ turn.content[0].text }}"
    "[/SYSTEM_PROMPT]{% elif turn.role == 'user' %}[INST]{% for part in turn.content %}{% if part.type == 'image' %}"
    "[IMG]{% else %}{{ part.text }}{% endif %}{% endfor %}[/INST]{% else %}{{ turn.content[0].text }}{{ eos_token }}"
    "{% endif %}{% endfor %}"
)
LLAMA = (
    "{{ bos_token }}{% for turn in messages %}<|start_header_id|>{{ turn.role }}<|end_header_id|>\n\n"
    "{% for part in turn.content %}{% if part.type == 'image' %}<|image|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
