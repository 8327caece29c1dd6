package billing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class OrderTest {
    @Test
    void anOrder() throws Exception {
        assertEquals(new Order("a", 5), Order.parse("{\"id\": \"a\", \"cents\": 5}"));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', value = {
        "{ | not JSON",
        "[] | no id",
        "{\"cents\": 5} | no id",
        "{\"id\": \"a\", \"cents\": 0} | no positive number of cents",
    })
    void whatCannotBeBilled(String text, String reason) {
        assertEquals(reason, assertThrows(Order.BadOrderException.class, () -> Order.parse(text)).getMessage());
    }
}
