//! When the allocator of the program returns freed memory to the system. In a program with another
//! allocator, such as a test, nothing here has an effect.

use tikv_jemalloc_ctl::{Access, AsName, Mib, arenas, background_thread};

/// How long memory that was freed is kept for the next request, in milliseconds.
const KEPT: isize = 1000;

/// Returns freed memory to the system within a second or two. By default jemalloc keeps it for ten
/// seconds, and longer in an arena whose threads allocate nothing meanwhile: what a crowd of slow
/// callers took stayed resident after they had left.
pub fn return_freed_memory() {
    // For arenas that are made later, then for those that are there.
    let later = "arenas.dirty_decay_ms\0".name().write(KEPT);
    if later.and_then(|()| background_thread::write(true)).is_err() {
        return;
    }
    each_arena(|arena| {
        // The arena of the largest allocations keeps nothing, and must not begin to.
        if arena.read().is_ok_and(|kept: isize| kept > KEPT) {
            let _ = arena.write(KEPT);
        }
    });
}

/// Returns freed memory to the system at once.
pub fn give_back() {
    each_arena(|arena| {
        // With a time of zero all of it is returned at once; then the time is as before.
        if let Ok(before) = arena.update(0_isize) {
            let _ = arena.write(before);
        }
    });
}

/// Calls `change` with the setting of each arena that says how long it keeps freed memory. An arena
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
