/* Labels handwritten digits from Java, with no line of C: java.lang.foreign, Java 22 or newer.
 *
 *     java --enable-native-access=ALL-UNNAMED Classify.java out/digits.so pictures.f32
 */

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

final class Classify {
    private static final int PIXELS = 28 * 28;
    private static final int CLASSES = 10;

    private final MethodHandle init;
    private final MethodHandle run;
    private final MethodHandle free;
    private final MethodHandle text;

    private Classify(SymbolLookup library) {
        init = function(library, "digits_init",
            FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, JAVA_INT));
        run = function(library, "digits_run",
            FunctionDescriptor.of(JAVA_INT, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG));
        free = function(library, "digits_free", FunctionDescriptor.ofVoid(ADDRESS));
        text = function(library, "digits_error_text", FunctionDescriptor.of(ADDRESS, JAVA_INT));
    }

    private static MethodHandle function(SymbolLookup library, String name, FunctionDescriptor kind) {
        return Linker.nativeLinker().downcallHandle(library.find(name).orElseThrow(), kind);
    }

    /** Ends the program with the library's text where a code is not 0. */
    private void require(int code) throws Throwable {
        if (code != 0) {
            MemorySegment said = (MemorySegment) text.invokeExact(code);
            throw new IllegalStateException(said.reinterpret(Long.MAX_VALUE).getString(0));
        }
    }

    /** An array as the library takes it: its address and its bytes. */
    private static MemorySegment row(Arena arena, MemorySegment array) {
        MemorySegment row = arena.allocate(MemoryLayout.structLayout(ADDRESS, JAVA_LONG));
        row.set(ADDRESS, 0, array);
        row.set(JAVA_LONG, 8, array.byteSize());
        return row;
    }

    /** Scores of all pictures, ten each. */
    private MemorySegment scores(Arena arena, MemorySegment pictures, long count) throws Throwable {
        MemorySegment made = arena.allocate(ADDRESS);
        require((int) init.invokeExact(made, MemorySegment.NULL, 1));
        MemorySegment context = made.get(ADDRESS, 0);
        MemorySegment result = arena.allocate(JAVA_FLOAT, count * CLASSES);
        try {
            require((int) run.invokeExact(context, row(arena, pictures), row(arena, result), count,
                MemorySegment.NULL, 0L));
        } finally {
            free.invokeExact(context);
        }
        return result;
    }

    private static int best(MemorySegment scores, long picture) {
        int best = 0;
        for (int i = 1; i < CLASSES; i++) {
            float found = scores.getAtIndex(JAVA_FLOAT, picture * CLASSES + i);
            if (found > scores.getAtIndex(JAVA_FLOAT, picture * CLASSES + best)) {
                best = i;
            }
        }
        return best;
    }

    public static void main(String[] words) throws Throwable {
        byte[] bytes = Files.readAllBytes(Path.of(words[1]));
        long count = bytes.length / (Float.BYTES * PIXELS);
        try (Arena arena = Arena.ofConfined()) {
            Classify network = new Classify(SymbolLookup.libraryLookup(Path.of(words[0]), arena));
            MemorySegment pictures = arena.allocate(Float.BYTES * PIXELS * count, Float.BYTES);
            MemorySegment.copy(bytes, 0, pictures, JAVA_BYTE, 0, (int) pictures.byteSize());
            MemorySegment scores = network.scores(arena, pictures, count);
            for (long picture = 0; picture < count; picture++) {
                System.out.println(best(scores, picture));
            }
        }
    }
}
