//! tek-abi
