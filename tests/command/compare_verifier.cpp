// Asks FlatBuffers' own verifier about messages: reads pairs of a u32 length and so many bytes from
// the file that is named, and prints 1 or 0 for each.
#include "command_generated.h"

#include <cstdint>
#include <cstdio>
#include <vector>

int main(int, char **arguments) {
    FILE *file = std::fopen(arguments[1], "rb");
    std::uint32_t size;
    while (std::fread(&size, sizeof size, 1, file) == 1) {
        // In words of 8 bytes, as aligned as the format wants it.
        std::vector<std::uint64_t> words(size / 8 + 1);
        auto *data = reinterpret_cast<std::uint8_t *>(words.data());
        if (std::fread(data, 1, size, file) != size) {
            return 1;
        }
        flatbuffers::Verifier verifier(data, size);
        std::putchar(lanekit::command::VerifyEnvelopeBuffer(verifier) ? '1' : '0');
    }
    return 0;
}
