// SPDX-License-Identifier: MIT OR Apache-2.0
//! Static worst case of stack use.
