package billing;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

/** What a record of the topic orders says. */
public record Order(String id, int cents) {
    private static final ObjectMapper JSON = new ObjectMapper();

    /** It cannot be billed, now or later; the message says why. */
    public static final class BadOrderException extends Exception {
        private static final long serialVersionUID = 1;

        BadOrderException(String reason) {
            super(reason);
        }
    }

    public static Order parse(String text) throws BadOrderException {
        JsonNode found;
        try {
            found = JSON.readTree(text == null ? "" : text);
        } catch (JsonProcessingException error) {
            throw new BadOrderException("not JSON");
        }
        String id = found.path("id").asText();
        if (id.isEmpty()) {
            throw new BadOrderException("no id");
        }
        if (!found.path("cents").canConvertToInt() || found.path("cents").asInt() <= 0) {
            throw new BadOrderException("no positive number of cents");
        }
        return new Order(id, found.path("cents").asInt());
    }

    /** The same for the same order, whenever it is billed. */
    public String invoice() {
        return JSON.createObjectNode().put("order", id).put("cents", cents).toString();
    }
}
