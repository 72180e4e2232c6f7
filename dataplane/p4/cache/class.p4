// Whose permission bits of a level count: D-85 to D-87. Included inside of the control `Permission`.

    table class_of {
        key = {
            meta.owner: ternary;
            meta.group: ternary;
        }
        actions = { class_is; }
        const entries = {
            (32w0, _): class_is(CLASS_OWNER);
            (_, 32w0): class_is(CLASS_GROUP);
        }
        const default_action = class_is(CLASS_OTHERS);
    }
