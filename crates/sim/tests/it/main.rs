//! The simulated provider over real sockets, by subject.

#[cfg(test)]
mod canned;
#[cfg(test)]
mod client;
#[cfg(test)]
mod documentation;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod formats;
#[cfg(test)]
mod requests;
