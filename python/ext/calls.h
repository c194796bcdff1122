/*
 * calls.h: what all files here share: CPython, numpy, the core, and how threads get along.
 */
#ifndef LK_CALLS_H
#define LK_CALLS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

#include "lanekit.h"

#include <stdbool.h>
#include <string.h>

/* Copies of so many bytes and more let other threads run meanwhile. Measured: letting go of the GIL
 * and taking it back costs 0.05 us when nobody wants it, and so many bytes take 5 us or longer. */
#define LET_OTHERS_RUN_FROM ((size_t)128 << 10)

/* Without a GIL one thread may change an object's fields while another looks at them. */
#ifdef Py_GIL_DISABLED
#define WITH_OBJECT(object) Py_BEGIN_CRITICAL_SECTION(object)
#define DONE_WITH_OBJECT() Py_END_CRITICAL_SECTION()
#else
#define WITH_OBJECT(object) \
    {                       \
        (void)(object)
#define DONE_WITH_OBJECT() }
#endif

/* Of trajectories: the most dimensions of a row, as struct lk_traj_field has them, and the rows of
 * a field that a record does not have. */
#define DIMENSIONS_MOST 5
#define ABSENT UINT64_MAX

/* An argument that is an address, for PyArg_ParseTuple. */
static inline int parse_address(PyObject *from, void *to) {
    void **address = (void **)to;
    *address = PyLong_AsVoidPtr(from);
    return PyErr_Occurred() == NULL;
}

static inline PyObject *new_object(PyTypeObject *type) {
    return ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
}

/* The end of an object whose fields have been let go of. */
static inline void free_object(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* Each file adds its own to the module: 0, or -1 with a Python error set. Called once, by the init
 * function in frame_publish.c. */
int lk_add_frame_reads(PyObject *module);
int lk_add_trajectory_calls(PyObject *module);
int lk_add_trajectory_records(PyObject *module);

#endif
