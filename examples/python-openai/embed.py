"""OpenAI's client for Python through `clearseal proxy`."""

from openai import NotFoundError, OpenAI

client = OpenAI(base_url="http://127.0.0.1:8788/v1", api_key="none")

texts = ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "Interest rates rose again."]
answer = client.embeddings.create(model="all-MiniLM-L6-v2", input=texts)

# Vectors have length 1, so their dot product is the cosine.
cat, kitten, rates = (item.embedding for item in answer.data)
print(f"cat and kitten: {sum(a * b for a, b in zip(cat, kitten)):.2f}")
print(f"cat and rates: {sum(a * b for a, b in zip(cat, rates)):.2f}")

try:
    client.embeddings.create(model="text-embedding-3-small", input="x")
except NotFoundError as error:
    print(f"another model: {error.code}")
