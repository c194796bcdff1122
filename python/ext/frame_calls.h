/*
 * frame_calls.h: what the fast lane's two sides share: arrays of pixels, and the way back to
 * Python.
 */
#ifndef LK_FRAME_CALLS_H
#define LK_FRAME_CALLS_H

#include "calls.h"

struct shape {
    npy_intp height, width, channels; /* all 0: nothing fits */
};

/* numpy's own, side by side: a copy drives them out of the nearest cache each time. */
struct numpy_types {
    PyTypeObject *ndarray;
    PyArray_Descr *uint8;
};

/* A string to be interned, and where it goes. */
struct name {
    PyObject **name;
    const char *text;
};

/* Hidden: within the extension only, and reached without a detour through a table. */
#pragma GCC visibility push(hidden)
extern struct numpy_types numpy;

bool make_names(const struct name *all, size_t count);
int parse_shape(PyObject *from, void *to);

/* Hand a call on to a method of the Python class, arguments as they came. */
PyObject *call_with(PyObject *self, PyObject *name, PyObject *const *args, Py_ssize_t count,
                    PyObject *keywords);
#pragma GCC visibility pop

/* The pixels of a uint8 array that has exactly this shape and these flags; else NULL. */
static inline void *pixels_of(PyObject *thing, const struct shape *shape, int flags) {
    if (shape->height == 0 || !PyObject_TypeCheck(thing, numpy.ndarray)) {
        return NULL;
    }
    PyArrayObject *array = (PyArrayObject *)thing;
    const npy_intp *found = PyArray_DIMS(array);
    if (PyArray_DESCR(array) != numpy.uint8 || PyArray_NDIM(array) != 3 ||
        found[0] != shape->height || found[1] != shape->width || found[2] != shape->channels ||
        !PyArray_CHKFLAGS(array, flags)) {
        return NULL;
    }
    return PyArray_DATA(array);
}

#define WITH_KEYWORDS (METH_FASTCALL | METH_KEYWORDS)
#define TYPE_FLAGS (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC)

#endif
