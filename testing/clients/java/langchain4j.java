import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.langchain4j.data.segment.TextSegment;
import dev.langchain4j.model.openai.OpenAiEmbeddingModel;
import java.util.ArrayList;
import java.util.List;

/** Prints the vectors of the texts, computed through LangChain4j. */
class Cases {
    public static void main(String[] arguments) throws Exception {
        JsonNode input = new ObjectMapper().readTree(System.getenv("CLIENT_INPUT"));
        List<TextSegment> texts = new ArrayList<>();
        input.get("texts").forEach(text -> texts.add(TextSegment.from(text.asText())));
        OpenAiEmbeddingModel model = OpenAiEmbeddingModel.builder()
            .baseUrl(input.get("address").asText() + "/v1")
            .apiKey("none")
            .modelName(input.get("model").asText())
            .build();
        List<List<Float>> vectors = new ArrayList<>();
        model.embedAll(texts).content().forEach(embedding -> vectors.add(embedding.vectorAsList()));
        System.out.println(vectors);
    }
}
