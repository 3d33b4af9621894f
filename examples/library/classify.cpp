// Labels handwritten digits in C++, several threads at once: one context, a workspace for each.
//
//     c++ -std=c++17 -O2 -Iout examples/library/classify.cpp out/digits.o -o classify -lm -lpthread
//     ./classify pictures.f32
#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "digits.h"

namespace {

constexpr std::size_t pixels = 28 * 28, classes = 10, workers = 4;

void require(int code)
{
    if (code != DIGITS_OK)
        throw std::runtime_error(digits_error_text(code));
}

struct Free {
    void operator()(digits_context *context) const { digits_free(context); }
};
using Context = std::unique_ptr<digits_context, Free>;

Context new_context()
{
    digits_context *made;
    require(digits_init(&made, nullptr, 1));
    return Context(made);
}

// Working memory of one thread.
class Workspace {
public:
    explicit Workspace(std::size_t bytes)
        : bytes_(bytes), data_(::operator new(bytes, std::align_val_t(DIGITS_WORKSPACE_ALIGNMENT)))
    {
    }
    Workspace(const Workspace &) = delete;
    Workspace &operator=(const Workspace &) = delete;
    ~Workspace() { ::operator delete(data_, std::align_val_t(DIGITS_WORKSPACE_ALIGNMENT)); }
    void *data() const { return data_; }
    std::size_t bytes() const { return bytes_; }

private:
    std::size_t bytes_;
    void *data_;
};

std::vector<float> read_all(const char *path)
{
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file)
        throw std::runtime_error(std::string(path) + ": cannot be read");
    std::vector<float> numbers(static_cast<std::size_t>(file.tellg()) / sizeof(float));
    file.seekg(0);
    file.read(reinterpret_cast<char *>(numbers.data()), numbers.size() * sizeof(float));
    return numbers;
}

// Scores of some pictures; any number of threads may do this with one context.
void score(digits_context *context, const float *pictures, float *scores, std::size_t count)
{
    if (count == 0)
        return;
    Workspace room(digits_workspace_bytes(context));
    digits_input input{pictures, count * DIGITS_INPUT0_BYTES};
    digits_output output{scores, count * DIGITS_OUTPUT0_BYTES};
    require(digits_run(context, &input, &output, count, room.data(), room.bytes()));
}

void label_all(const char *path)
{
    const std::vector<float> pictures = read_all(path);
    const std::size_t count = pictures.size() / pixels, each = (count + workers - 1) / workers;
    std::vector<float> scores(count * classes);
    const Context context = new_context();
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < count; first += each) {
        const std::size_t some = std::min(each, count - first);
        threads.emplace_back(score, context.get(), &pictures[first * pixels],
                             &scores[first * classes], some);
    }
    for (std::thread &thread : threads)
        thread.join();
    for (std::size_t i = 0; i < count; i++) {
        const auto first = scores.begin() + i * classes;
        std::cout << std::max_element(first, first + classes) - first << '\n';
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " PICTURES\n";
        return 2;
    }
    try {
        label_all(argv[1]);
    } catch (const std::exception &error) {
        std::cerr << "digits: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
