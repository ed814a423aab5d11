import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.models.embeddings.EmbeddingCreateParams;
import java.util.ArrayList;
import java.util.List;

/** Prints the vectors of the texts, computed through OpenAI's client for Java. */
class Cases {
    public static void main(String[] arguments) throws Exception {
        JsonNode input = new ObjectMapper().readTree(System.getenv("CLIENT_INPUT"));
        List<String> texts = new ArrayList<>();
        input.get("texts").forEach(text -> texts.add(text.asText()));
        OpenAIClient client = OpenAIOkHttpClient.builder()
            .baseUrl(input.get("address").asText() + "/v1")
            .apiKey("none")
            .build();
        EmbeddingCreateParams parameters = EmbeddingCreateParams.builder()
            .model(input.get("model").asText())
            .inputOfArrayOfStrings(texts)
            .build();
        List<List<Float>> vectors = new ArrayList<>();
        client.embeddings().create(parameters).data().forEach(item -> vectors.add(item.embedding()));
        System.out.println(vectors);
        System.exit(0);
    }
}
