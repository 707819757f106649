"""Engine outputs back to answers: text, reasoning, tool calls.

`base.py` says what a reader is; `deepseek.py` is the official library's, `plain.py` that of all
other models; `lines.py` writes answers as lines of an OpenAI batch.
"""
