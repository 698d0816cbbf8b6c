//! When the allocator of the program returns freed memory to the system. In a program with another
//! allocator, such as a test, nothing here has an effect.

use tikv_jemalloc_ctl::{Access, AsName, Mib, arenas};

/// Returns freed memory to the system at once.
pub fn give_back() {
    each_arena(|arena| {
        // A time of zero returns everything at once; then the previous time is restored.
        if let Ok(before) = arena.update(0_isize) {
            let _ = arena.write(before);
        }
    });
}

/// Calls `change` with the setting of each arena for how long it keeps freed memory. An arena
/// that was never used refuses, and has no memory.
fn each_arena(change: impl Fn(&Mib<[usize; 3]>)) {
    let Ok(arenas) = arenas::narenas::read() else {
        return;
    };
    let Ok(mut decay) = "arena.0.dirty_decay_ms\0".name().mib::<[usize; 3]>() else {
        return;
    };
    for arena in 0..usize::try_from(arenas).unwrap_or(0) {
        decay[1] = arena;
        change(&decay);
    }
}
