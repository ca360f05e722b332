#define OWN_MUTEX
#include <functional>
#include "prelude.h"

/* A mutex that lets "another thread" act at the moment when it is given back, as a real one can. */
struct Mutex {
    static std::function<void()> other_thread;
    bool held = false;
    void lock() { if (held) abort(); held = true; }
    bool try_lock() { if (held) return false; return held = true; }
    void unlock()
    {
        held = false;
        auto act = std::move(other_thread);
        other_thread = nullptr;
        if (act)
            act();
    }
};
std::function<void()> Mutex::other_thread;
#include "listing.cpp"

int main(int argc, char **argv)
{
    Account from, to, third;
    from.balance = 1000;
    if (!transfer(from, to, 400) || transfer(from, to, 700) || transfer(from, from, 1) || from.balance != 600)
        return TRIGGERED("a wrong transfer");
    if (IS_ATTACK(argc, argv))
        Mutex::other_thread = [&] { transfer(from, third, 500); };
    transfer(from, to, 500);
    return from.balance < 0 ? TRIGGERED("a negative balance") : CLEAN();
}
