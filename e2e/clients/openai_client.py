"""Calls a server through OpenAI's Python library in the usual ways, and prints what it gets.

Ids and times, which differ from call to call, are left out. Everything else must be the same
whether the server is asked directly or through a proxy.
"""
import json
import sys

import openai

base, model = sys.argv[1:3]
client = openai.OpenAI(base_url=base + "/v1", api_key="sk-test", max_retries=0)


def clean(value):
    if isinstance(value, dict):
        return {k: clean(v) for k, v in value.items() if k not in ("id", "created", "created_at", "request_id")}
    return [clean(v) for v in value] if isinstance(value, list) else value


def show(name, value):
    print(name, json.dumps(clean(value), sort_keys=True))


def fold(chunks):
    """Joins the texts of events that follow each other: a server that is behind puts two tokens into one."""
    out = []
    for c in chunks:
        c = clean(c.model_dump())
        text = c["choices"][0]["delta"] if c["choices"] and "delta" in c["choices"][0] else (c["choices"] or [{}])[0]
        key = "content" if "content" in text else "text"
        body, probs = text.get(key), c["choices"][0].get("logprobs") if c["choices"] else None
        if out and body and out[-1][1] and out[-1][3] == c["choices"][0].get("finish_reason") is None:
            out[-1][1] += body
            if probs:
                out[-1][2] += probs["content"]
            continue
        if text and body is not None:
            text[key] = None
        if probs:
            c["choices"][0]["logprobs"] = None
        out.append([c, body, probs["content"] if probs else None, c["choices"][0].get("finish_reason") if c["choices"] else "end"])
    return out


messages = [{"role": "user", "content": "Tell me something."}]
usual = dict(model=model, messages=messages, max_tokens=12, temperature=0, seed=1)
tool = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}}, "required": ["city"]}}}
choice = {"type": "function", "function": {"name": "weather"}}

show("models", [m.model_dump() for m in client.models.list()])
show("chat", client.chat.completions.create(**usual).model_dump())
show("chat n=2", client.chat.completions.create(**{**usual, "temperature": 0.7}, n=2).model_dump())
show("stream", fold(client.chat.completions.create(**usual, stream=True)))
show("stream usage", fold(client.chat.completions.create(**usual, stream=True, stream_options={"include_usage": True})))
show("stream logprobs", fold(client.chat.completions.create(**usual, stream=True, logprobs=True, top_logprobs=2)))
show("tool", client.chat.completions.create(**{**usual, "max_tokens": 40}, tools=[tool], tool_choice=choice).model_dump())
calls = [c.model_dump() for c in client.chat.completions.create(
    **{**usual, "max_tokens": 40}, tools=[tool], tool_choice=choice, stream=True)]
for c in calls:
    for ch in c["choices"]:
        for call in ch["delta"].get("tool_calls") or []:
            call.pop("id", None)
arguments = "".join(call["function"]["arguments"] or "" for c in calls for ch in c["choices"] for call in ch["delta"].get("tool_calls") or [])
show("tool stream", [calls[0], calls[-1], arguments])
show("completion", client.completions.create(model=model, prompt="Once", max_tokens=9, temperature=0).model_dump())
show("completion stream", fold(c for c in client.completions.create(
    model=model, prompt=["Once", "Twice"], max_tokens=5, temperature=0, stream=True) if c.choices[0].index == 0))
for name, call in {
    "no such model": lambda: client.chat.completions.create(**{**usual, "model": "none"}),
    "too long": lambda: client.chat.completions.create(**{**usual, "max_tokens": 10**6}),
    "bad value": lambda: client.chat.completions.create(**{**usual, "temperature": -3}),
    "no such path": lambda: client.post("/nothing", cast_to=object),
    "embeddings": lambda: client.embeddings.create(model=model, input="x"),
}.items():
    try:
        call()
        print(name, "did not fail")
    except openai.APIStatusError as e:
        show(name, [type(e).__name__, e.status_code, e.body])
