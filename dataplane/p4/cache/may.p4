// Whether a level that fits is passed: D-85 to D-89. Included inside of the control `Permission`.
//
// A level above the last is passed by who may search it. Of wants bit 0 is to execute or search, 1 to write, 2 to read; bit 3 may search and
// read anything, bit 4 write anything. What denies stands before what leaves it open: one bit that is missing for sure is enough.

    table may {
        key = {
            meta.fits: ternary;
            meta.last: ternary;
            meta.of_class: ternary;
            hdr.read.wants: ternary;
            hdr.value.value_4: ternary;
        }
        actions = { passes; denies; cannot_tell; }
        const entries = {
            // D-88: what capabilities cover, of a directory searching too.
            (1w1, 1w0, _, 8w0x08 &&& 8w0x08, _): passes();
            (1w1, 1w1, _, 8w0x08 &&& 8w0x0a, WORD_DIRECTORY &&& WORD_OF_KIND): passes();
            (1w1, 1w1, _, 8w0x08 &&& 8w0x0b, _): passes();
            (1w1, 1w1, _, 8w0x18 &&& 8w0x18, WORD_DIRECTORY &&& WORD_OF_KIND): passes();
            (1w1, 1w1, _, 8w0x18 &&& 8w0x19, _): passes();
            (1w1, 1w1, _, 8w0x10 &&& 8w0x15, _): passes();
            // D-85, D-89; D-88: nobody is denied who has a capability.
            (1w1, 1w0, CLASS_OWNER, 8w0x00 &&& 8w0x18, 32w0x000 &&& 32w0x040): denies();
            (1w1, 1w1, CLASS_OWNER, 8w0x01 &&& 8w0x19, 32w0x000 &&& 32w0x040): denies();
            (1w1, 1w1, CLASS_OWNER, 8w0x02 &&& 8w0x1a, 32w0x000 &&& 32w0x080): denies();
            (1w1, 1w1, CLASS_OWNER, 8w0x04 &&& 8w0x1c, 32w0x000 &&& 32w0x100): denies();
            (1w1, 1w0, CLASS_OWNER, _, 32w0x000 &&& 32w0x040): cannot_tell();
            (1w1, 1w1, CLASS_OWNER, 8w0x01 &&& 8w0x01, 32w0x000 &&& 32w0x040): cannot_tell();
            (1w1, 1w1, CLASS_OWNER, 8w0x02 &&& 8w0x02, 32w0x000 &&& 32w0x080): cannot_tell();
            (1w1, 1w1, CLASS_OWNER, 8w0x04 &&& 8w0x04, 32w0x000 &&& 32w0x100): cannot_tell();
            // D-86, D-89; D-88: nobody is denied who has a capability.
            (1w1, 1w0, CLASS_GROUP, 8w0x00 &&& 8w0x18, 32w0x000 &&& 32w0x008): denies();
            (1w1, 1w1, CLASS_GROUP, 8w0x01 &&& 8w0x19, 32w0x000 &&& 32w0x008): denies();
            (1w1, 1w1, CLASS_GROUP, 8w0x02 &&& 8w0x1a, 32w0x000 &&& 32w0x010): denies();
            (1w1, 1w1, CLASS_GROUP, 8w0x04 &&& 8w0x1c, 32w0x000 &&& 32w0x020): denies();
            (1w1, 1w0, CLASS_GROUP, _, 32w0x000 &&& 32w0x008): cannot_tell();
            (1w1, 1w1, CLASS_GROUP, 8w0x01 &&& 8w0x01, 32w0x000 &&& 32w0x008): cannot_tell();
            (1w1, 1w1, CLASS_GROUP, 8w0x02 &&& 8w0x02, 32w0x000 &&& 32w0x010): cannot_tell();
            (1w1, 1w1, CLASS_GROUP, 8w0x04 &&& 8w0x04, 32w0x000 &&& 32w0x020): cannot_tell();
            // D-87: who is neither has the bits of the group, or those of others.
            (1w1, 1w0, CLASS_OTHERS, 8w0x00 &&& 8w0x18, 32w0x000 &&& 32w0x009): denies();
            (1w1, 1w1, CLASS_OTHERS, 8w0x01 &&& 8w0x19, 32w0x000 &&& 32w0x009): denies();
            (1w1, 1w1, CLASS_OTHERS, 8w0x02 &&& 8w0x1a, 32w0x000 &&& 32w0x012): denies();
            (1w1, 1w1, CLASS_OTHERS, 8w0x04 &&& 8w0x1c, 32w0x000 &&& 32w0x024): denies();
            (1w1, 1w0, CLASS_OTHERS, _, 32w0x000 &&& 32w0x008): cannot_tell();
            (1w1, 1w1, CLASS_OTHERS, 8w0x01 &&& 8w0x01, 32w0x000 &&& 32w0x008): cannot_tell();
            (1w1, 1w1, CLASS_OTHERS, 8w0x02 &&& 8w0x02, 32w0x000 &&& 32w0x010): cannot_tell();
            (1w1, 1w1, CLASS_OTHERS, 8w0x04 &&& 8w0x04, 32w0x000 &&& 32w0x020): cannot_tell();
            (1w1, 1w0, CLASS_OTHERS, _, 32w0x000 &&& 32w0x001): cannot_tell();
            (1w1, 1w1, CLASS_OTHERS, 8w0x01 &&& 8w0x01, 32w0x000 &&& 32w0x001): cannot_tell();
            (1w1, 1w1, CLASS_OTHERS, 8w0x02 &&& 8w0x02, 32w0x000 &&& 32w0x002): cannot_tell();
            (1w1, 1w1, CLASS_OTHERS, 8w0x04 &&& 8w0x04, 32w0x000 &&& 32w0x004): cannot_tell();
            (1w1, _, _, _, _): passes();
        }
        const default_action = cannot_tell();
    }
