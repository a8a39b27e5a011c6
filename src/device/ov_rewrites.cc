#include "device/ov_rewrites.h"

#include <memory>
#include <openvino/core/graph_util.hpp>
#include <openvino/op/constant.hpp>
#include <openvino/op/convert.hpp>
#include <openvino/op/multiply.hpp>
#include <openvino/op/not_equal.hpp>
#include <openvino/op/parameter.hpp>
#include <openvino/op/reduce_max.hpp>
#include <openvino/op/reduce_min.hpp>
#include <openvino/op/result.hpp>
#include <openvino/op/util/multi_subgraph_base.hpp>

namespace tandem {
namespace {

std::shared_ptr<ov::Node> Scalar(const ov::element::Type& type, float value) {
  return ov::op::v0::Constant::create(type, ov::Shape{}, {value});
}

void CopyInputsToOutputs(ov::Model& model) {
  for (const auto& result : model.get_results()) {
    const ov::Output<ov::Node> source = result->input_value(0);
    if (!ov::is_type<ov::op::v0::Parameter>(source.get_node())) continue;
    const auto copy = std::make_shared<ov::op::v0::Convert>(source, source.get_element_type());
    result->input(0).replace_source_output(copy);
  }
}

// Half of the inputs and twice the result: exact for all finite numbers (but the last bit of some
// denormal ones), while the largest finite number overflows to the infinity that it stands for.
void ReduceToInfinity(const std::shared_ptr<ov::Node>& reduction) {
  const ov::element::Type type = reduction->get_output_element_type(0);
  if (!type.is_real()) return;
  const auto readers = reduction->output(0).get_target_inputs();
  reduction->input(0).replace_source_output(
      std::make_shared<ov::op::v1::Multiply>(reduction->input_value(0), Scalar(type, 0.5F)));
  const auto twice = std::make_shared<ov::op::v1::Multiply>(reduction, Scalar(type, 2));
  twice->set_friendly_name(reduction->get_friendly_name());
  reduction->set_friendly_name(reduction->get_friendly_name() + "/half");
  twice->output(0).add_names(reduction->output(0).get_names());
  reduction->output(0).set_names({});
  for (ov::Input<ov::Node> reader : readers) reader.replace_source_output(twice);
}

void CompareWithZero(const std::shared_ptr<ov::Node>& convert) {
  const ov::Output<ov::Node> source = convert->input_value(0);
  const ov::element::Type type = source.get_element_type();
  if (convert->get_output_element_type(0) != ov::element::boolean || type == ov::element::boolean) {
    return;
  }
  const auto compared = std::make_shared<ov::op::v1::NotEqual>(source, Scalar(type, 0));
  ov::replace_node(convert, compared);
  compared->set_friendly_name(convert->get_friendly_name());
}

void RewriteNodes(const ov::Model& model) {
  for (const std::shared_ptr<ov::Node>& node : model.get_ordered_ops()) {
    if (ov::is_type<ov::op::v1::ReduceMax>(node) || ov::is_type<ov::op::v1::ReduceMin>(node)) {
      ReduceToInfinity(node);
    } else if (ov::is_type<ov::op::v0::Convert>(node)) {
      CompareWithZero(node);
    } else if (const auto outer = ov::as_type_ptr<ov::op::util::MultiSubGraphOp>(node)) {
      for (const auto& body : outer->get_functions()) RewriteNodes(*body);
    }
  }
}

}  // namespace

void RewriteWhatIsComputedWrongly(ov::Model& model) {
  CopyInputsToOutputs(model);
  RewriteNodes(model);
}

}  // namespace tandem
