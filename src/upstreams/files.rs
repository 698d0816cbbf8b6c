//! Distinguishes a provider that cannot be reached from a program that has no file left to reach it with.

use pingora_core::Error;
use rustix::io::Errno;
use std::io;

/// Whether it was the program, or the system, that had no descriptor left.
pub fn is_out_of_files(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.root_cause());
    while let Some(it) = cause {
        let fault = it.downcast_ref::<io::Error>();
        let number = fault.and_then(io::Error::raw_os_error);
        if number.is_some_and(|it| {
            it == Errno::MFILE.raw_os_error() || it == Errno::NFILE.raw_os_error()
        }) {
            return true;
        }
        cause = it.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use pingora_core::ErrorType;

    /// As a connector reports it: the system's error is the cause of the connector's.
    fn connecting(cause: Errno) -> Box<Error> {
        let system = io::Error::from(cause);
        let inner = Error::because(ErrorType::ConnectError, "connecting", system);
        Error::because(ErrorType::ConnectError, "to a provider", inner)
    }

    #[test]
    fn only_the_shortage_of_files_is_one() {
        for cause in [Errno::MFILE, Errno::NFILE] {
            assert!(is_out_of_files(&connecting(cause)), "{cause:?}");
        }
        for cause in [Errno::CONNREFUSED, Errno::TIMEDOUT, Errno::ADDRNOTAVAIL] {
            assert!(!is_out_of_files(&connecting(cause)), "{cause:?}");
        }
    }
}
