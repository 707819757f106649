"""Raw rows to requests: shapes told apart, bodies validated and rebuilt as the server does.

What says "profile rule" here follows the request models of vLLM 0.33.0 (`entrypoints/openai/`).
"""
