"""GGUF models on this machine: their files (`models`), fetching one (`fetch`), running one (`provider`, `server`).

`server` is the child process that runs llama.cpp; it is started as `python -m clew.providers.local.server`.
"""
