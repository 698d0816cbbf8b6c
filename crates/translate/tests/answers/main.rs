//! Answers and streams in every direction: recorded ones, small ones of our own, hostile ones.

#[cfg(test)]
mod behaviour;
#[cfg(test)]
mod bounded;
#[cfg(test)]
mod compaction;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod json_object;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod searches;
#[cfg(test)]
mod stops;
#[cfg(test)]
mod strict;
#[cfg(test)]
mod summary;
#[cfg(test)]
mod support;
#[cfg(test)]
mod table;
#[cfg(test)]
mod there_and_back;
