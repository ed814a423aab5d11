"""OpenAI's client for Python without a proxy: its transport encrypts each request to the verified enclave in this process."""

import clearseal
from openai import OpenAI

# For development. In production, pass `policy="trust-policy.json"`: an enclave that is not verified raises `clearseal.Refused`.
with clearseal.connect("http://127.0.0.1:8787", allow_simulated=True) as session:
    client = OpenAI(base_url=session.base_url, api_key="none", http_client=session.http_client())
    answer = client.embeddings.create(model="all-MiniLM-L6-v2", input=["only the enclave", "reads these"])
    print(f"{session.verdict}: {len(answer.data)} vectors of {len(answer.data[0].embedding)} numbers")
