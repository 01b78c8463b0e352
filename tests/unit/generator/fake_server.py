"""A server on ``http.server``: a tiny real model behind the replies of several kinds of servers, or any function."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch


class FakeServer:
    """Answers every request with ``reply(path, body) -> payload, (status, payload) or (status, payload, headers)``.

    Bytes as payload are sent as they are; ``requests`` and ``most`` (at a time) are what it saw.
    """

    def __init__(self, reply):
        self.requests, self.headers, self.now, self.most, lock = [], [], 0, 0, threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            wbufsize, disable_nagle_algorithm = -1, True

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                with lock:
                    outer.requests.append((self.path, body))
                    outer.headers.append(dict(self.headers))
                    outer.now += 1
                    outer.most = max(outer.most, outer.now)
                answer = reply(self.path, body)
                with lock:
                    outer.now -= 1
                status, payload, headers = (*answer, {})[:3] if isinstance(answer, tuple) else (200, answer, {})
                data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST

            def log_message(self, *args):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def close(self):
        self._http.shutdown()
        self._http.server_close()


class Served:
    """Replies of a kind of server: ``vllm``, ``echo``, ``echo-1``, ``llama.cpp``, or one failing as ``mode`` says."""

    def __init__(self, model, tokenizer, mode="vllm"):
        self.model, self.tokenizer, self.mode = model, tokenizer, mode
        self.lock = threading.Lock()

    def __call__(self, path, body):
        if path.endswith("/models"):
            return {"data": [{"id": "tiny", "max_model_len": 512}]}
        if path.endswith("/chat/completions"):
            return self._chat(body)
        allowed = self.mode in ("vllm", "llama.cpp", "one-entry")
        if not allowed and {"prompt_logprobs", "return_token_ids", "grammar", "top_k"} & set(body):
            return 400, {"error": {"message": "unknown parameter"}}
        if self.mode == "echo-1" and body["max_tokens"] == 0:
            return 400, {"error": {"message": "max_tokens must be at least 1"}}
        prompt = body["prompt"] if isinstance(body["prompt"], list) else self._encode(body["prompt"])
        new = self._forced(body) if self.mode == "llama.cpp" and "grammar" in body else self._write(prompt, body)
        return self._reply(prompt, new, body)

    def rows(self, ids):
        with self.lock, torch.no_grad():
            return self.model(torch.tensor([ids])).logits[0].float().log_softmax(-1)

    def _encode(self, text):
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def _surface(self, token):
        return self.tokenizer.decode([token], clean_up_tokenization_spaces=False)

    def _forced(self, body):
        return [int(part.strip("<[]>")) for part in body["grammar"].removeprefix("root ::= ").split()]

    def _write(self, prompt, body):
        new, draw = [], torch.Generator().manual_seed(body.get("seed", 0))
        while len(new) < body["max_tokens"] and self.tokenizer.eos_token_id not in new:
            row, heat = self.rows([*prompt, *new])[-1], body["temperature"]
            new.append(int(torch.multinomial((row / heat).softmax(-1), 1, generator=draw) if heat else row.argmax()))
        return new

    def _reply(self, prompt, new, body):
        choice = {"index": 0, "text": self.tokenizer.decode(new, skip_special_tokens=True), "logprobs": None}
        choice["finish_reason"] = "stop" if new[-1:] == [self.tokenizer.eos_token_id] else "length"
        whole, top = [*prompt, *new], body.get("logprobs")
        rows = self.rows(whole)
        if self.mode == "after-temperature" and body["temperature"]:
            rows = (rows / body["temperature"]).log_softmax(-1)
        if self.mode == "vllm" and "prompt_logprobs" in body:
            likeliest = rows.topk(body["prompt_logprobs"]).indices.tolist()
            choice["prompt_logprobs"] = [None] + [
                {
                    str(t): {"logprob": rows[p, t].item(), "decoded_token": self._surface(t)}
                    for t in (own, *likeliest[p])
                }
                for p, own in enumerate(prompt[1:])
            ]
        if body.get("return_token_ids") and self.mode == "vllm":
            choice["token_ids"] = new
        if top is not None and self.mode != "null":
            echoed = body.get("echo") and self.mode not in ("llama.cpp", "one-entry")
            choice["logprobs"] = self._logprobs(rows, whole, 0 if echoed else len(prompt), top)
        return {"choices": [choice], "usage": {"prompt_tokens": len(prompt)}, "system_fingerprint": "fp1"}

    def _logprobs(self, rows, whole, start, top):
        entries = []
        for place in range(start, len(whole)):
            values, ids = rows[place - 1].topk(top) if place else (torch.empty(0), torch.empty(0))
            likeliest = list(zip(ids.tolist(), values.tolist(), strict=True))
            own = rows[place - 1, whole[place]].item() if place else None
            entries.append((whole[place], own, likeliest))
        if self.mode == "llama.cpp":
            named = [
                {
                    "id": t,
                    "token": self._surface(t),
                    "logprob": own,
                    "top_logprobs": [{"id": i, "token": self._surface(i), "logprob": v} for i, v in likeliest],
                }
                for t, own, likeliest in entries
            ]
            return {"content": named}
        tops = [{self._surface(i): v for i, v in likeliest} or None for _, _, likeliest in entries]
        return {
            "tokens": [self._surface(t) for t, _, _ in entries],
            "token_logprobs": [own for _, own, _ in entries],
            "top_logprobs": [] if self.mode == "empty-top" else tops,
        }

    def _chat(self, body):
        if "chat_template_kwargs" in body and self.mode == "echo":
            return 400, {"error": {"message": "unknown parameter"}}
        if any(each["role"] == "system" for each in body["messages"]):
            return 400, {"error": {"message": "System role not supported"}}
        prompt = self._encode("".join(f"{each['role']}: {each['content']}\n" for each in body["messages"]))
        new = self._write(prompt, body)
        mode, self.mode = self.mode, "llama.cpp"  # the chat form of log-probabilities
        logprobs = self._logprobs(self.rows([*prompt, *new]), [*prompt, *new], len(prompt), body.get("top_logprobs", 0))
        self.mode = mode
        message = {"role": "assistant", "content": self.tokenizer.decode(new, skip_special_tokens=True)}
        return {"choices": [{"message": message, "finish_reason": "length", "logprobs": logprobs}]}
