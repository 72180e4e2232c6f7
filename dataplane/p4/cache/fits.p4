// Whether a level's entry may be used at all: it is valid (D-82), of the directory that is reached (D-83), a directory that leads somewhere
// (D-84), or of the last level what can be answered for this purpose (D-90). Included inside of the control `Permission`. Of an entry that is
// another's, or not there, the state is 0.

    table fits {
        key = {
            meta.state: ternary;
            meta.parent_0: ternary;
            meta.parent_1: ternary;
            meta.last: ternary;
            hdr.read.purpose: ternary;
            hdr.read.wants: ternary;
            hdr.value.value_4: ternary;
            hdr.value.value_2: ternary;
            hdr.value.value_3: ternary;
        }
        actions = { fits_if; }
        const entries = {
            // D-82.
            (32w0, _, _, _, _, _, _, _, _): fits_if(0);
            (32w1 &&& 32w1, _, _, _, _, _, _, _, _): fits_if(0);
            // D-84.
            (_, 32w0, 32w0, 1w0, _, _, WORD_DIRECTORY &&& WORD_OF_KIND, 32w0, 32w0): fits_if(0);
            (_, 32w0, 32w0, 1w0, _, _, WORD_DIRECTORY &&& WORD_OF_KIND, _, _): fits_if(1);
            // D-90.
            (_, 32w0, 32w0, 1w1, PURPOSE_LOOKUP, _, _, _, _): fits_if(1);
            (_, 32w0, 32w0, 1w1, PURPOSE_STAT, _, WORD_DIRECTORY &&& WORD_OF_KIND, _, _): fits_if(0);
            (_, 32w0, 32w0, 1w1, PURPOSE_STAT, _, _, _, _): fits_if(1);
            (_, 32w0, 32w0, 1w1, PURPOSE_ACCESS, _, WORD_SYMLINK &&& WORD_OF_KIND, _, _): fits_if(0);
            (_, 32w0, 32w0, 1w1, PURPOSE_ACCESS, _, _, _, _): fits_if(1);
            (_, 32w0, 32w0, 1w1, PURPOSE_OPEN, 8w0x02 &&& 8w0x02, _, _, _): fits_if(0);
            (_, 32w0, 32w0, 1w1, PURPOSE_OPEN, _, WORD_FILE &&& WORD_OF_KIND, _, _): fits_if(1);
            (_, 32w0, 32w0, 1w1, PURPOSE_SIZE, _, WORD_FILE &&& WORD_OF_KIND, _, _): fits_if(1);
        }
        const default_action = fits_if(0);
    }
