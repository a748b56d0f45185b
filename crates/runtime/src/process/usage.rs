//! What a process uses, for the dashboard.
//!
//! Read from `/proc` when somebody looks, never on a timer. Absent: any decision by it; a worker
//! that grows is not replaced for that.

use spillgate_core::units::ByteSize;

/// The memory that process `pid` holds now (resident, shared pages included); none when it is gone
/// or not ours to see.
pub fn memory_of(pid: u32) -> Option<ByteSize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    memory_in(&status)
}

fn memory_in(status: &str) -> Option<ByteSize> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(ByteSize::from_kib(kib))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_is_seen_and_that_of_nobody_is_not() {
        assert!(memory_of(std::process::id()) > Some(ByteSize::ZERO));
        assert_eq!(memory_of(0), None);
        assert_eq!(memory_in("Name:\tx\nVmRSS:\t    12 kB\n"), Some(ByteSize::from_kib(12)));
        assert_eq!(memory_in("VmRSS: many kB"), None);
    }
}
