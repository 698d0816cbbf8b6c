//! A provider to develop and test against
