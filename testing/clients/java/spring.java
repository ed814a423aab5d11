import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.springframework.ai.document.MetadataMode;
import org.springframework.ai.openai.OpenAiEmbeddingModel;
import org.springframework.ai.openai.OpenAiEmbeddingOptions;

/** Prints the vectors of the texts, computed through Spring AI. */
class Cases {
    public static void main(String[] arguments) throws Exception {
        JsonNode input = new ObjectMapper().readTree(System.getenv("CLIENT_INPUT"));
        List<String> texts = new ArrayList<>();
        input.get("texts").forEach(text -> texts.add(text.asText()));
        OpenAiEmbeddingOptions options = OpenAiEmbeddingOptions.builder()
            .baseUrl(input.get("address").asText() + "/v1")
            .apiKey("none")
            .model(input.get("model").asText())
            .build();
        OpenAiEmbeddingModel model = OpenAiEmbeddingModel.builder().options(options).build();
        List<String> vectors = new ArrayList<>();
        model.embed(texts).forEach(vector -> vectors.add(Arrays.toString(vector)));
        System.out.println(vectors);
        System.exit(0);
    }
}
