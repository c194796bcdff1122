// The public header compiles and links as C++.
#include <lanekit.h>

int main() {
    lk_platform_info info;
    return lk_platform_describe(&info) == LK_OK && info.atomics_lock_free == 1 ? 0 : 1;
}
