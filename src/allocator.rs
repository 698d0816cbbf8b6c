//! The allocator of the program, as far as it is told anything. In a program with another one,
//! such as a test, that has no effect.

use tikv_jemalloc_ctl::{Access, AsName, arenas};

/// Gives the system back the memory that was let go and is kept for later, which else takes
/// seconds, and does not happen where nothing is asked for.
pub fn give_back() {
    let Ok(arenas) = arenas::narenas::read() else {
        return;
    };
    let Ok(mut decay) = "arena.0.dirty_decay_ms\0".name().mib::<[usize; 3]>() else {
        return;
    };
    for arena in 0..usize::try_from(arenas).unwrap_or(0) {
        decay[1] = arena;
        // Kept for no time all of it is given back. The next is kept as long as before. An arena
        // that nobody has used refuses, and has nothing.
        if let Ok(before) = decay.update(0_isize) {
            let _ = decay.write(before);
        }
    }
}
