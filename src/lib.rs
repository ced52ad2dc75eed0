//! `labor`: the nginx module. This file will hold the module table and nothing else.
