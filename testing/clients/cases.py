"""One function per Python client. Each prints the vectors of the texts, as a list of lists."""

import asyncio
import json
import os
import tempfile

INPUT = json.loads(os.environ["CLIENT_INPUT"])
ADDRESS, MODEL, TEXTS, SETTING = (INPUT[name] for name in ("address", "model", "texts", "setting"))
KEY = "none"
BASE = f"{ADDRESS}/v1"


def openai():
    from openai import OpenAI

    client = OpenAI(base_url=BASE, api_key=KEY)
    return [item.embedding for item in client.embeddings.create(model=MODEL, input=TEXTS).data]


def azure_openai():
    from openai import AzureOpenAI

    client = AzureOpenAI(azure_endpoint=ADDRESS, api_key=KEY, api_version="2024-10-21")
    return [item.embedding for item in client.embeddings.create(model=MODEL, input=TEXTS).data]


def langchain_openai():
    from langchain_openai import OpenAIEmbeddings

    settings = {"check_embedding_ctx_length": False} if SETTING else {}
    return OpenAIEmbeddings(model=MODEL, base_url=BASE, api_key=KEY, **settings).embed_documents(TEXTS)


def langchain_ollama():
    from langchain_ollama import OllamaEmbeddings

    return OllamaEmbeddings(model=MODEL, base_url=ADDRESS).embed_documents(TEXTS)


def langchain_cohere():
    from langchain_cohere import CohereEmbeddings

    return CohereEmbeddings(model=MODEL, base_url=ADDRESS, cohere_api_key=KEY).embed_documents(TEXTS)


def langchain_huggingface():
    from langchain_huggingface import HuggingFaceEndpointEmbeddings

    return HuggingFaceEndpointEmbeddings(model=ADDRESS).embed_documents(TEXTS)


def llama_index_openai():
    from llama_index.embeddings.openai import OpenAIEmbedding

    return OpenAIEmbedding(model_name=MODEL, api_base=BASE, api_key=KEY).get_text_embedding_batch(TEXTS)


def llama_index_openai_like():
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    return OpenAILikeEmbedding(model_name=MODEL, api_base=BASE, api_key=KEY).get_text_embedding_batch(TEXTS)


def llama_index_ollama():
    from llama_index.embeddings.ollama import OllamaEmbedding

    return OllamaEmbedding(model_name=MODEL, base_url=ADDRESS).get_text_embedding_batch(TEXTS)


def llama_index_tei():
    from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

    return TextEmbeddingsInference(model_name=MODEL, base_url=ADDRESS).get_text_embedding_batch(TEXTS)


def haystack():
    from haystack import Document
    from haystack.components.embedders import OpenAIDocumentEmbedder
    from haystack.utils import Secret

    embedder = OpenAIDocumentEmbedder(model=MODEL, api_base_url=BASE, api_key=Secret.from_token(KEY))
    documents = embedder.run([Document(content=text) for text in TEXTS])["documents"]
    return [document.embedding for document in documents]


def litellm():
    from litellm import embedding

    answer = embedding(model=f"openai/{MODEL}", input=TEXTS, api_base=BASE, api_key=KEY)
    return [item["embedding"] for item in answer.data]


def dspy():
    import dspy

    embedder = dspy.Embedder(f"openai/{MODEL}", api_base=BASE, api_key=KEY)
    return embedder(TEXTS).tolist()


def chromadb():
    from chromadb import EphemeralClient
    from chromadb.utils.embedding_functions import OpenAIEmbeddingFunction

    function = OpenAIEmbeddingFunction(model_name=MODEL, api_base=BASE, api_key=KEY)
    collection = EphemeralClient().create_collection("texts", embedding_function=function)
    collection.add(documents=TEXTS, ids=[str(at) for at in range(len(TEXTS))])
    rows = collection.get(include=["embeddings"])
    return [vector.tolist() for _, vector in sorted(zip(rows["ids"], rows["embeddings"]))]


def lancedb_openai():
    os.environ["OPENAI_API_KEY"] = KEY
    return lancedb("openai", {"base_url": BASE})


def lancedb_ollama():
    return lancedb("ollama", {"host": ADDRESS})


def lancedb(function, options):
    import lancedb
    from lancedb.embeddings import get_registry
    from lancedb.pydantic import LanceModel, Vector

    model = get_registry().get(function).create(name=MODEL, **options)

    class Row(LanceModel):
        text: str = model.SourceField()
        vector: Vector(model.ndims()) = model.VectorField()

    with tempfile.TemporaryDirectory() as folder:
        table = lancedb.connect(folder).create_table("texts", schema=Row)
        table.add([{"text": text} for text in TEXTS])
        vectors = {row["text"]: row["vector"].tolist() for _, row in table.to_pandas().iterrows()}
    return [vectors[text] for text in TEXTS]


def pydantic_ai():
    from pydantic_ai import Embedder
    from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIEmbeddingModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key=KEY))
    return [list(vector) for vector in asyncio.run(Embedder(model).embed_documents(TEXTS)).embeddings]


def semantic_kernel():
    from openai import AsyncOpenAI
    from semantic_kernel.connectors.ai.open_ai import OpenAITextEmbedding

    service = OpenAITextEmbedding(
        ai_model_id=MODEL, async_client=AsyncOpenAI(base_url=BASE, api_key=KEY)
    )
    return asyncio.run(service.generate_embeddings(TEXTS)).tolist()


def cohere():
    import cohere

    client = cohere.ClientV2(base_url=ADDRESS, api_key=KEY)
    answer = client.embed(
        model=MODEL, texts=TEXTS, input_type="search_document", embedding_types=["float"]
    )
    return answer.embeddings.float_


def ollama():
    from ollama import Client

    return [list(vector) for vector in Client(host=ADDRESS).embed(model=MODEL, input=TEXTS).embeddings]


def huggingface_hub():
    from huggingface_hub import InferenceClient

    client = InferenceClient(base_url=ADDRESS)
    return [client.feature_extraction(text).reshape(-1).tolist() for text in TEXTS]


if __name__ == "__main__":
    print(json.dumps(globals()[INPUT["case"]]()))
