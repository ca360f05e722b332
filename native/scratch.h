// A buffer that only grows, aligned for the widest vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace whitedwarf {

class Scratch {
public:
    Scratch() = default;
    Scratch(Scratch&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch() { release(); }

    // At least `bytes`, contents undefined. Throws std::bad_alloc.
    uint8_t* reserve(int64_t bytes) {
        if (bytes > size_) {
            release();
            data_ = static_cast<uint8_t*>(::operator new(size_t(bytes), kAlignment));
            size_ = bytes;
        }
        return data_;
    }

    uint8_t* data() const { return data_; }

private:
    static constexpr std::align_val_t kAlignment{64};

    void release() {
        if (data_) ::operator delete(data_, kAlignment);
        data_ = nullptr;
        size_ = 0;
    }

    uint8_t* data_ = nullptr;
    int64_t size_ = 0;
};

static inline int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace whitedwarf
